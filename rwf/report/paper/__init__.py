"""The paper's own numbers, typed from its tables: Masano and others, "Routing without Forgetting".

table1: Table 1, OCL performance; table2: few-shot regimes; table3: routing depth; table4: trainable parameters; each as
mean and standard deviation over three runs. figure2: the two numbers that the text states of the figure on the number
of tasks. split-imagenet-s is what this package calls split-imagenet-sketch (docs/paper-notes.md says why).
"""
